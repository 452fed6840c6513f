// Sets every formula of the page; what KaTeX cannot set shows in red, with its reason as a tooltip.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".math")) {
    katex.render(element.textContent, element, { displayMode: element.tagName === "DIV", throwOnError: false });
  }
});
