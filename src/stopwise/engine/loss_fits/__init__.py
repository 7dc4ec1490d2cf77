"""Minimisers of a loss plus a penalty, and the path along it: for other losses than the squared one."""
