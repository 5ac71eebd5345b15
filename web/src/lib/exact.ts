// JSON without loss: a whole number that JavaScript cannot hold becomes a marked text, and a number again when it is written.
// Nothing else of a value changes, so that what a person edits, settles or copies has the numbers of the store.

const MARK = `\uE000${Math.random().toString(36).slice(2)}:`;
/** No text of the server has the mark: it is drawn for each load of the page. */
const WHOLE = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
const LONG = /\d{16}/;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

const mark = (digits: string): string =>
  Number.isSafeInteger(Number(digits)) ? digits : `"${MARK}${digits}"`;

/** The value of a JSON text. SyntaxError for what is no JSON. */
export function parse(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!LONG.test(text)) return value;
  let made = "";
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at);
    made += text.slice(at, quote < 0 ? text.length : quote).replace(WHOLE, mark);
    if (quote < 0) break;
    at = after(text, quote);
    made += text.slice(quote, at);
  }
  return JSON.parse(made);
}

/** Where the string that begins at `quote` has ended. */
function after(text: string, quote: number): number {
  for (let at = quote + 1; ; at++) {
    at = text.indexOf('"', at);
    let slashes = 0;
    while (text[at - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
}

/** The JSON text of a value. */
export const json = (value: unknown, indent?: number): string =>
  (JSON.stringify(value, null, indent) ?? "null").replace(MARKED, "$1");

/** A text as people read it. */
export const unmarked = (text: string): string => (text.includes(MARK) ? text.replaceAll(MARK, "") : text);
