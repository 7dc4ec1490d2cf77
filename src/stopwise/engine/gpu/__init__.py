"""The same operators and stores on a device."""
