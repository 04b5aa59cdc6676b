// Asks for the same page again, and changes what differs: elements stay, so focus, scrolling, open
// details, chosen boxes and charts stay as they are.
(() => {
  "use strict";
  const EVERY = 2000, LONGEST = 10000, NEAR = 4;
  const state = document.getElementById("state"), readAt = document.getElementById("read-at");
  // What the viewer or page.js sets.
  const OWN = new Set(["open", "hidden", "checked", "style"]);
  // A refusal has nothing to wait for.
  if (state.closest("[hidden]")) return;
  let etag = "", pause = EVERY, timer = 0;

  const say = (kind, text) => {
    if (state.textContent !== text) state.textContent = text;
    document.body.dataset.state = kind;
  };

  const isSame = (old, fresh) =>
    old && old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName
      && (old.id ?? "") === (fresh.id ?? "");

  const change = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!OWN.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (!OWN.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (!old.matches(".chart, .keys output, .filter output")) changeChildren(old, fresh);
  };

  const changeChildren = (old, fresh) => {
    const known = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
    let next = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const found = wanted.id ? known.get(wanted.id) : next;
      if (!isSame(found, wanted)) {
        old.insertBefore(document.importNode(wanted, true), next);
        continue;
      }
      if (found === next) next = next.nextSibling;
      else old.insertBefore(found, next);
      change(found, wanted);
    }
    while (next) {
      const rest = next.nextSibling;
      next.remove();
      next = rest;
    }
  };

  const show = (html) => {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const focused = document.activeElement, log = document.querySelector(".log");
    const isAtEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - NEAR;
    document.title = fresh.title;
    change(document.getElementById("content"), fresh.getElementById("content"));
    const data = document.getElementById("chart-data");
    const isDrawn = data.textContent === fresh.getElementById("chart-data").textContent;
    data.textContent = fresh.getElementById("chart-data").textContent;
    // A row that moves loses the focus.
    if (focused !== document.activeElement && focused.isConnected) {
      focused.focus({ preventScroll: true });
    }
    const newLog = document.querySelector(".log");
    if (newLog && (isAtEnd || !log)) newLog.scrollTop = newLog.scrollHeight;
    if (!isDrawn || document.querySelector(".filter")) window.imagenetPage.update();
  };

  const showTime = () => {
    const at = new Date(readAt.dateTime);
    if (!Number.isNaN(at.getTime())) {
      readAt.textContent = `read at ${at.toLocaleTimeString("en-GB")}`;
    }
  };

  const look = async () => {
    const chosen = document.getSelection();
    if (!chosen.isCollapsed && document.getElementById("content").contains(chosen.anchorNode)) {
      say("waiting", "Waits while text is selected,");
      return;
    }
    try {
      const answer = await fetch(location.href, {
        cache: "no-store", headers: etag ? { "If-None-Match": etag } : {},
        signal: AbortSignal.timeout(LONGEST),
      });
      if (answer.status === 403) {
        say("lost", "The dashboard was started again: open the address that it has printed;");
        pause = LONGEST;
        return;
      }
      if (answer.status >= 500) throw new Error(answer.statusText);
      if (answer.status !== 304) {
        show(await answer.text());
        etag = answer.headers.get("ETag") ?? "";
      }
      const at = answer.headers.get("Read-At");
      if (at) readAt.dateTime = at;
      pause = EVERY;
      const trouble = document.querySelector(".trouble[data-trouble]");
      say(trouble ? "waiting" : "live", trouble ? "No new values," : "Live,");
    } catch {
      say("lost", "Connection lost, trying again;");
      pause = Math.min(LONGEST, pause * 1.5);
    }
    showTime();
  };

  const again = async () => {
    clearTimeout(timer);
    if (!document.hidden) await look();
    clearTimeout(timer);
    timer = setTimeout(again, pause);
  };

  document.addEventListener("visibilitychange", () => { if (!document.hidden) again(); });
  const log = document.querySelector(".log");
  if (log) log.scrollTop = log.scrollHeight;
  showTime();
  again();
})();
