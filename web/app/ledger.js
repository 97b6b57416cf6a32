// later
export function Ledger() { return html`<h1>Ledger</h1>`; }
