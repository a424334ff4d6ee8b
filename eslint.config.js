// What eslint asks of the front end: its recommended rules, and those below. Prettier decides the layout.

import js from "@eslint/js";
import globals from "globals";

// The text of a stage reaches the page as text: nothing may parse it as HTML.
const PARSED = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe"];

export default [
  // also what other commands write, which may run at the same time
  {
    ignores: [
      "**/static/**",
      "**/.*/**",
      "build/**",
      "class-pack/**",
      "demo/**",
      "dist/**",
      "docs/_build/**",
      "release/**",
    ],
  },
  js.configs.recommended,
  {
    files: ["explorer/view/widget/src/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-shadow": "error",
      "no-var": "error",
      "no-restricted-properties": ["error", ...PARSED.map((property) => ({ property }))],
      "no-unused-expressions": "error",
      "no-useless-rename": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "max-len": ["error", { code: 110 }],
    },
  },
];
