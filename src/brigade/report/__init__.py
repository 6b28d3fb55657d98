"""Reports: tables, plots, HTML and CSV, computed from run folders alone."""

from brigade.report.html import write_report
from brigade.report.numbers import write_csv
from brigade.report.read import RunData, read_run
from brigade.report.tables import print_summary
from brigade.runs.folder import RunFolderError

__all__ = ["RunData", "RunFolderError", "print_summary", "read_run", "write_csv", "write_report"]
