// Runs the open tab, and says what is under way.
window.arrCoc = {
  quick: ["compare"],
  names: {ask: "Ask", compare: "Compare"},
  ready: false,
  doing: {ask: "Asking", compare: "Comparing"},
  ticking: null,
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
    window.arrCoc.begin(tab);
    button.click();
    // On a telephone the settings lie below the view, and a visitor may be down there: go where something happens.
    const line = document.querySelector("#going");
    if (!byItself && window.innerWidth <= 720) line.scrollIntoView({behavior: "smooth", block: "start"});
  },
  // A sign that it works, and for how long; what was asked last counts.
  begin(tab) {
    const words = window.arrCoc.doing[tab];
    if (!words) return;
    clearInterval(window.arrCoc.ticking);
    window.arrCoc.started = Date.now();
    document.body.classList.add("busy");
    window.arrCoc.say(words + "…");
    window.arrCoc.ticking = setInterval(() => window.arrCoc.say(words + "…"), 100);
  },
  say(words) {
    const doing = document.querySelector("#doing"), clock = document.querySelector("#clock");
    if (!doing) return;
    // Written only when it changes: a screen reader says every change.
    if (doing.textContent !== words) doing.textContent = words;
    clock.textContent = ((Date.now() - window.arrCoc.started) / 1000).toFixed(1) + " s";
  },
  done(words) {
    if (!document.body.classList.contains("busy")) return;
    clearInterval(window.arrCoc.ticking);
    document.body.classList.remove("busy");
    window.arrCoc.say(words ? words + " after" : "Done in");
  },
  open() {
    window.arrCoc.ready = true;
    window.arrCoc.run(true, "ask");
  },
  // Keys for those who do not use a mouse; while somebody types, only those with Ctrl and Esc.
  key(event) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    const press = (place) => { const one = document.querySelector(place); if (one) one.click(); return Boolean(one); };
    let done = false;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) done = press("#go");
    else if (event.key === "Escape" && document.body.classList.contains("busy")) done = press("#cancel");
    else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (event.key === "/") {
      const question = document.querySelector("#question textarea, #question input");
      if (question) { question.focus(); done = true; }
    } else if (/^[1-9]$/.test(event.key)) {
      const tabs = document.querySelectorAll('#tabs [role="tab"][id^="tab-"]');
      if (tabs[event.key - 1]) { tabs[event.key - 1].click(); done = true; }
    }
    if (done) event.preventDefault();
  },
};
// A PDF that is dropped on the picture opens as one, in the part of the page that takes PDFs.
document.addEventListener("drop", (event) => {
  const file = event.dataTransfer && event.dataTransfer.files[0];
  if (!file || !/\.pdf$/i.test(file.name) || !event.target.closest("#picture")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const held = new DataTransfer(), start = Date.now();
  held.items.add(file);
  const input = () => document.querySelector("#pdf-file input[type=file]");
  if (!input()) document.querySelector("#pdf button").click();
  const hand = () => {
    if (input()) { input().files = held.files; input().dispatchEvent(new Event("change", {bubbles: true})); }
    else if (Date.now() - start < 5000) setTimeout(hand, 50);
  };
  hand();
}, true);
document.addEventListener("keydown", (event) => window.arrCoc.key(event));
