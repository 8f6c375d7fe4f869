"use strict";
// Every figure carries its data: where its curves are, what they say, what its legend switches.
(() => {
  const REACH = 30; // in the SVG's units
  const tip = document.getElementById("tip");
  const svgName = "http://www.w3.org/2000/svg";

  function make(parent, name, attributes) {
    const element = document.createElementNS(svgName, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return parent.appendChild(element);
  }

  function nearest(marks, x, y) {
    let found = null, least = REACH * REACH;
    for (const mark of marks) {
      const [left, top, right, bottom] = mark.box;
      if (x < left || x > right || y < top || y > bottom) continue;
      for (const point of mark.points) {
        const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
        if (distance < least) { least = distance; found = { mark, point }; }
      }
    }
    return found;
  }

  function show(found, event) {
    tip.textContent = `${found.mark.name}\n${found.point[2]}`;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, room))}px`;
    tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
  }

  function follow(svg, marks, isOn) {
    const dot = make(svg, "circle", { r: 4, fill: "none", stroke: "#000", "stroke-width": 1.5 });
    const hide = () => { tip.hidden = true; dot.style.display = "none"; };
    hide();
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY);
      const { x, y } = at.matrixTransform(svg.getScreenCTM().inverse());
      const found = nearest(marks.filter(isOn), x, y);
      if (!found) return hide();
      dot.setAttribute("cx", found.point[0]);
      dot.setAttribute("cy", found.point[1]);
      dot.style.display = "";
      show(found, event);
    });
    svg.addEventListener("pointerleave", hide);
  }

  function entry(svg, key, parts, toggle) {
    const group = make(svg, "g", { class: "key", role: "button", tabindex: 0, "data-key": key });
    group.setAttribute("aria-pressed", "true");
    group.setAttribute("aria-label", `show ${key}`);
    for (const part of parts) group.appendChild(part);
    const box = group.getBBox();
    make(group, "rect", { x: box.x - 2, y: box.y - 1, width: box.width + 4,
      height: box.height + 2, fill: "transparent" });
    const press = () => {
      const on = toggle(key);
      group.classList.toggle("off", !on);
      group.setAttribute("aria-pressed", String(on));
    };
    group.addEventListener("click", press);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); }
    });
  }

  for (const figure of document.querySelectorAll("figure")) {
    const svg = figure.querySelector("svg");
    const { marks, legend } = JSON.parse(figure.querySelector("script").textContent);
    const off = new Set();
    const isOn = (mark) => !mark.keys.some((key) => off.has(key));
    const toggle = (key) => {
      off.has(key) ? off.delete(key) : off.add(key);
      for (const mark of marks)
        for (const id of mark.parts)
          document.getElementById(id).classList.toggle("off-part", !isOn(mark));
      return !off.has(key);
    };
    for (const [key, ids] of Object.entries(legend))
      entry(svg, key, ids.map((id) => document.getElementById(id)), toggle);
    follow(svg, marks, isOn);
  }
})();
