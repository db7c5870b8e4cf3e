"""Work spread over a Dask cluster. Nothing in this folder is imported before `engine=` asks for it."""
