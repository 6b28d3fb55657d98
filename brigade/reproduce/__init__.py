"""Published tables and figures: rerun and compared with the published numbers."""
