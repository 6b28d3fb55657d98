"""Many runs at a time: in processes of this machine, or on a Ray cluster."""

from brigade.launch.job import Job, Workers, open_folder, run_jobs
from brigade.launch.processes import Processes

__all__ = ["Job", "Processes", "Workers", "open_folder", "run_jobs"]
