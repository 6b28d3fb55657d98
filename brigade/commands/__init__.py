"""What the verbs of the command line do beyond calling the library; their flags are in `cli`."""
