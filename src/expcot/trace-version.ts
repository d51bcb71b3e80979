/** Version of the words of expert traces, for whatever keeps them. */

/** Raised with every change of what a trace says of the same example: its words, its numbers, what it cites. */
export const TRACE_VERSION = 4;
