// What a browser keeps of a person's taste: theme, zone, recent reasons.
import { effect, signal, type Signal } from "@preact/signals";

function kept<T extends string>(name: string, fallback: T): Signal<T> {
  let first = fallback;
  try {
    first = (localStorage.getItem(`holdfast.${name}`) as T | null) ?? fallback;
  } catch {
    // A browser without storage keeps nothing.
  }
  const value = signal<T>(first);
  effect(() => {
    try {
      localStorage.setItem(`holdfast.${name}`, value.value);
    } catch {
      // As above.
    }
  });
  return value;
}

type Theme = "system" | "light" | "dark";
export const theme = kept<Theme>("theme", "system");
export const zone = kept<"utc" | "local">("zone", "utc");
export const density = kept<"comfortable" | "compact">("density", "comfortable");
const reasonsText = kept<string>("reasons", "[]");

effect(() => {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
  root.dataset.density = density.value;
});

export const isDark = (): boolean =>
  theme.value === "system" ? matchMedia("(prefers-color-scheme: dark)").matches : theme.value === "dark";
export const turnTheme = (): void => void (theme.value = isDark() ? "light" : "dark");

const REASONS_MAX = 5;
export function reasons(): string[] {
  try {
    const all: unknown = JSON.parse(reasonsText.value);
    return Array.isArray(all) ? all.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}
export function keepReason(text: string): void {
  if (text)
    reasonsText.value = JSON.stringify(
      [text, ...reasons().filter((old) => old !== text)].slice(0, REASONS_MAX),
    );
}
