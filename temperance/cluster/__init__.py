"""Work spread over a Dask cluster. Nothing here is imported before `engine=` asks for it."""
