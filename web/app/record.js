// later
export function OneRequest() { return html`<h1>OneRequest</h1>`; }
export function Record() { return html`<h1>Record</h1>`; }
