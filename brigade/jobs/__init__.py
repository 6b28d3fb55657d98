"""Many runs at a time: in processes of this machine, or on a Ray cluster."""

from brigade.jobs.job import Job, Workers, open_folder, run_jobs
from brigade.jobs.processes import Processes

__all__ = ["Job", "Processes", "Workers", "open_folder", "run_jobs"]
