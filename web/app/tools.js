// later
export function Tools() { return html`<h1>Tools</h1>`; }
