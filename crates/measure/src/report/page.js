// A hair line at the pointer, and beside it the values nearest to it.
const tip = document.createElement("div");
tip.id = "tip";
document.body.append(tip);
for (const chart of document.querySelectorAll("svg.chart")) {
  const lines = [...chart.querySelectorAll("[data-x]")].map((g) => ({
    name: g.dataset.name,
    steps: "steps" in g.dataset, // a value holds until the next one
    colour: g.style.getPropertyValue("--s"),
    x: g.dataset.x.split(" ").map(Number),
    head: g.dataset.h.split("|"),
    value: g.dataset.v.split("|"),
  }));
  if (!lines.length) continue;
  const [left, top, right, bottom] = chart.dataset.box.split(" ").map(Number);
  const hair = document.createElementNS(chart.namespaceURI, "path");
  hair.setAttribute("class", "hair");
  chart.append(hair);
  const hide = () => {
    tip.style.display = "none";
    hair.setAttribute("d", "");
  };
  const row = (text, colour) => {
    const div = document.createElement("div");
    if (colour) {
      const key = document.createElement("i");
      key.style.background = colour;
      div.append(key);
    }
    div.append(text);
    return div;
  };
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(chart.getScreenCTM().inverse());
    if (!(at.x >= left) || at.x > right) return hide();
    const near = lines.map((line) => {
      let best = 0;
      line.x.forEach((x, i) => {
        const nearer = Math.abs(x - at.x) < Math.abs(line.x[best] - at.x);
        if (line.steps ? x <= at.x : nearer) best = i;
      });
      return { line, best };
    });
    hair.setAttribute("d", `M${at.x} ${top}V${bottom}`);
    tip.replaceChildren(
      row(near[0].line.head[near[0].best]),
      ...near.map(({ line, best }) =>
        row(`${line.name} ${line.value[best]}`, line.colour)),
    );
    tip.style.display = "block";
    const wide = tip.offsetWidth + 16;
    const x = event.clientX + wide > innerWidth ? event.clientX - wide : event.clientX + 16;
    tip.style.left = `${x}px`;
    tip.style.top = `${event.clientY + 16}px`;
  });
}
