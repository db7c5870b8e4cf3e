// Pages opened from disk cannot load the search index: browsers forbid it. Say so instead of finding nothing.
if (location.protocol === "file:") {
  const field = document.querySelector("[data-md-component=search-query]");
  if (field) {
    field.placeholder = "Search needs a server: python -m http.server";
    field.title = "Run `python -m http.server` in this folder and open http://localhost:8000 to search.";
    field.disabled = true;
  }
}
