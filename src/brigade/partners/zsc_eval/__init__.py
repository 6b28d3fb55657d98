"""Ready-made evaluation partners of ZSC-Eval's layouts: policy files, and what was measured."""
