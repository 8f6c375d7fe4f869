"""Zeroth-order descent on the weights of a module, never stored twice unless there is room."""
