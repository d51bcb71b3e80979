/**
 * Choices that a recipe or an option names. Each is a record in one table, keyed by name; the enum of the recipe, the help of the command
 * line, the comments of recipes, the labels of reports and the tables of the documentation are made of that table.
 */
export interface Choice {
  /** Name in reports. */
  readonly label: string;
  /** Sentence for help, without a full stop. */
  readonly summary: string;
  /** Authors, year and arXiv number; absent for what has no paper. */
  readonly paper?: string;
}

/** Names of a table, in its order. */
export const choiceNames = <Table extends object>(table: Table) =>
  Object.keys(table) as [keyof Table & string, ...(keyof Table & string)[]];

/** The choices as one clause each: `k1: log-ratio; k2: half the squared log-ratio`. */
export const choiceHelp = (table: Readonly<Record<string, Choice>>): string =>
  Object.entries(table)
    .map(([name, { summary }]) => `${name}: ${summary}`)
    .join('; ');
