"""The script of a map of topics: choose a topic, order its words by relevance, find a word."""

SCRIPT = """
(() => {
  const topics = JSON.parse(document.getElementById("topic-data").textContent);
  const marks = [...document.querySelectorAll(".map g[data-topic]")];
  const slider = document.getElementById("topic-relevance"), search = document.getElementById("topic-search");
  const panel = document.getElementById("topic-words");
  let chosen = Number(marks[0].dataset.topic);
  const element = (tag, text) => { const e = document.createElement(tag); e.textContent = text ?? ""; return e; };
  function show() {
    const lambda = Number(slider.value), topic = topics[chosen], list = element("ol");
    const score = ([, p, lift]) => lambda * Math.log(p) + (1 - lambda) * Math.log(lift);
    const words = [...topic.words].sort((a, b) => score(b) - score(a)).slice(0, 15);
    const most = Math.max(...words.map(word => word[1]));
    for (const [word, p] of words) {
      const item = element("li"), bar = element("i"), room = element("span");
      bar.style.width = `${100 * p / most}%`;
      room.append(bar);
      item.append(element("span", word), room, element("span", `${(100 * p).toFixed(1)}%`));
      list.append(item);
    }
    const share = (100 * topic.share).toFixed(1);
    panel.replaceChildren(element("strong", `Topic ${chosen + 1}, ${share}% of all words`), list);
    for (const mark of marks) mark.setAttribute("aria-pressed", String(Number(mark.dataset.topic) === chosen));
  }
  function find() {
    const asked = search.value.trim().toLowerCase();
    let best = -1, most = 0;
    for (const mark of marks) {
      const here = topics[mark.dataset.topic].words.filter(word => asked && word[0].toLowerCase().startsWith(asked));
      mark.classList.toggle("found", here.length > 0);
      const p = Math.max(0, ...here.map(word => word[1])) * topics[mark.dataset.topic].share;
      if (p > most) { most = p; best = Number(mark.dataset.topic); }
    }
    if (best >= 0) { chosen = best; show(); }
    else if (asked) panel.replaceChildren(element("p", `No topic has \\u201c${asked}\\u201d among its leading words.`));
    else show();
  }
  for (const mark of marks) {
    const choose = () => { chosen = Number(mark.dataset.topic); show(); };
    mark.addEventListener("click", choose);
    mark.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); }
    });
  }
  slider.addEventListener("input", show);
  search.addEventListener("input", find);
  show();
})();
"""
