// Shows what is new without loading the page again: elements with `data-live` are replaced by the server's, by their id.
// Nothing is replaced that has the keyboard's focus or a selection in it. Without scripts the page works the same,
// loaded by hand.
"use strict";

const EVERY_MILLISECONDS = 5000;
const connection = document.getElementById("connection");
let silentSince = null;

function inUse(element) {
  const selection = document.getSelection();
  return element.contains(document.activeElement)
    || (selection !== null && !selection.isCollapsed && element.contains(selection.anchorNode));
}

function takeOver(fresh) {
  for (const element of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(element.id);
    if (other !== null && !inUse(element) && other.innerHTML !== element.innerHTML) {
      element.replaceChildren(...other.childNodes);
    }
  }
}

function silent(how) {
  silentSince ??= new Date();
  connection.textContent = `dm-worker ${how} since ${silentSince.toLocaleTimeString()}. `
    + "What you see is from before. It is asked again every 5 seconds.";
  connection.hidden = false;
}

async function look() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "follow" });
    if (answer.redirected) {
      location.assign(answer.url); // the session is over
      return;
    }
    if (!answer.ok) {
      silent(`answers with status ${answer.status}`);
      return;
    }
    takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
    silentSince = null;
    connection.hidden = true;
  } catch {
    silent("does not answer");
  }
}

async function lookAgainAndAgain() {
  if (document.querySelector("[data-live]") !== null && !document.hidden) {
    await look();
  }
  setTimeout(lookAgainAndAgain, EVERY_MILLISECONDS);
}

setTimeout(lookAgainAndAgain, EVERY_MILLISECONDS);
