// later
export function Doubt() { return html`<h1>Doubt</h1>`; }
