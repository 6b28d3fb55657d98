"""Published tables and figures, run again and set beside what was published."""
