// What the libraries give, under one roof.
export const { h, render, Fragment } = libraries["preact"];
export const { useEffect, useLayoutEffect, useRef, useMemo, useState } = libraries["preact/hooks"];
export const { signal, computed, effect, batch } = libraries["@preact/signals"];
export const html = libraries["htm"].default.bind(h);
