// Runs the open tab, follows the settings of a link, and keeps the address up to date.
window.arrCoc = {
  quick: ["ways", "textures", "compare", "numbers"],
  names: {ask: "Ask", ways: "Look", textures: "Sense", compare: "Compare", passes: "Look again and again"},
  ready: false,
  tab() {
    const open = document.querySelector('[role="tab"][aria-selected="true"][id^="tab-"]');
    return open ? open.id.replace("tab-", "").replace("-button", "") : "ask";
  },
  run(byItself, asked) {
    const tab = asked || window.arrCoc.tab();
    const go = document.querySelector("#go");
    if (go && window.arrCoc.names[tab]) go.textContent = window.arrCoc.names[tab];
    if (!window.arrCoc.ready) return;
    // By itself only what is quick, and what the page was opened for.
    if (byItself && !asked && !window.arrCoc.quick.includes(tab)) return;
    const button = document.querySelector("#run-" + tab);
    if (!button) return;
    button.click();
    // On a telephone the view lies below the sidebar: go where something happens.
    if (!byItself && window.innerWidth <= 720) document.querySelector("#views").scrollIntoView({behavior: "smooth"});
  },
  open() {
    window.arrCoc.ready = true;
    const named = new URLSearchParams(window.location.search).get("tab");
    const tab = ["ask", "ways", "textures", "compare", "passes", "video", "numbers"].includes(named) ? named : "ask";
    // A tab that the link names is put into the page a moment later.
    const start = Date.now();
    const wait = () => {
      if (document.querySelector("#run-" + tab)) window.arrCoc.run(true, tab);
      else if (Date.now() - start < 10000) setTimeout(wait, 50);
    };
    if (tab !== "video") wait();
  },
  keep(link) {
    if (!link) return;
    const now = new URL(window.location.href);
    const next = new URLSearchParams(link);
    for (const key of ["__theme", "view"]) if (now.searchParams.has(key)) next.set(key, now.searchParams.get(key));
    window.history.replaceState(null, "", now.pathname + "?" + next.toString());
  },
};
