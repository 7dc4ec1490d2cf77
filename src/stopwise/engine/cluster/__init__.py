"""The same operators and stores on a Dask cluster."""
