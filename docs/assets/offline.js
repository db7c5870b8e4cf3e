// What the theme leaves without a name or a focus: the search dialog, and code and tables that scroll sideways.
document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
const scrolling = "pre > code, .md-typeset__scrollwrap, .md-typeset .formula";
const reachable = () => {
  document.querySelectorAll(".md-code__nav").forEach((bar, number) => bar.setAttribute("aria-label", `Code block ${number + 1}`));
  document.querySelectorAll(scrolling).forEach((box) => box.setAttribute("tabindex", "0"));
};
addEventListener("load", () => setTimeout(reachable, 500)); // after the theme's own script

// Pages opened from disk cannot load the search index: browsers forbid it, and the theme hides the field. Say so there.
if (location.protocol === "file:") {
  const explain = () => {
    const field = document.querySelector("[data-md-component=search-query]");
    if (!field) return;
    field.closest("[data-md-component=search]").hidden = false;
    field.placeholder = "Search needs a server";
    field.title = "Run `python -m http.server` in this folder and open http://localhost:8000 to search.";
    field.style.fontSize = ".65rem";
    field.disabled = true;
    const result = document.querySelector(".md-search-result__meta");
    if (result) result.textContent = field.title;
  };
  addEventListener("load", () => setTimeout(explain, 500)); // after the theme's own script
}
