"""Predictions and their variances, on the processor or on a device."""
