// Before the first paint: the theme that was chosen. And when the page itself cannot start: say so.
(function () {
  "use strict";
  try {
    var theme = localStorage.getItem("glassbox.theme");
    if (theme === "light" || theme === "dark") document.documentElement.setAttribute("data-theme", theme);
  } catch (forbidden) {
    // No storage: the system's theme.
  }
  function failed() {
    var boot = document.getElementById("boot");
    if (boot) boot.firstElementChild.textContent = "This page could not start. Reload it; if that does not help, use a current browser.";
  }
  window.addEventListener("unhandledrejection", failed);
  window.addEventListener("error", failed, true);
})();
