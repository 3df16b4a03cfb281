/**
 * Making and changing elements. Text reaches the page as text nodes and attributes alone, so that a host's name or an event's reason can be anything.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * el makes an HTML element. Attributes that are functions are listeners ("onclick"), true is an empty attribute, false and null leave it out.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** svg makes an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else setAttribute(node, name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

/** setAttribute changes an attribute only where it differs: the browser does nothing for what stays. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** setText changes a node's text only where it differs, so that selections and screen readers are left alone. */
export function setText(node, text) {
  const s = String(text);
  if (node.textContent !== s) node.textContent = s;
}

/** setStyle sets one property through the object model, which the page's content security policy allows, unlike style attributes. */
export function setStyle(node, property, value) {
  if (node.style.getPropertyValue(property) !== value) node.style.setProperty(property, value);
}

/**
 * reconcile makes the parent's children those of the items, in their order. An item of the same key keeps its element, and with it focus and hover.
 * make returns the element of a new item, update brings it up to date.
 */
export function reconcile(parent, items, key, make, update) {
  const old = parent.reconciled ?? new Map();
  const now = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let node = old.get(k);
    if (!node) {
      node = make(item);
      node.item = k;
    }
    now.set(k, node);
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const [k, node] of old) if (!now.has(k)) node.remove();
  parent.reconciled = now;
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // moving an element takes its focus
}

/** byId is the element of the page that has the id. */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element #${id}`);
  return node;
}
