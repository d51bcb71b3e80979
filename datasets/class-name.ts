/** What the name of a class may be: one line that a response can carry between tags. */
export const CLASS = /^[^\s<>](?:[^\n\r<>]{0,198}[^\s<>])?$/u;

/** The same in words. */
export const CLASS_RULE = 'one line of 1 to 200 characters without < and >, and without blanks around it';
