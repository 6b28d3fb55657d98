"""Studies: pipelines of runs and computations, such as making, choosing and meeting partners."""
