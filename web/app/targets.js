// later
export function Targets() { return html`<h1>Targets</h1>`; }
