/** Users' modules `FILE[#NAME]`: specifiers, addresses and hashes. `user-code.ts` runs them. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError, reasonOf } from './errors.ts';

/** Endings of modules that are run. */
const MODULE_ENDINGS = ['.ts', '.mts', '.js', '.mjs'] as const;

/** A module's file and which of its exports is meant. */
export interface ModuleAddress {
  /** Absolute path. */
  readonly file: string;
  readonly name: string;
}

const SPECIFIER = /^(?<file>.*?)(?:#(?<name>[^#/\\]+))?$/su;

/** Returns true if a word names a user's module, by its file extension. */
export const isModuleSpecifier = (word: string): boolean => /\.[cm]?[jt]sx?(?:#[^#/\\]+)?$/u.test(word);

/** Resolves a specifier from a directory. The name is that after `#`, else `default`. */
export function moduleAddress(specifier: string, directory: string): ModuleAddress {
  const { file = '', name = 'default' } = SPECIFIER.exec(specifier)!.groups!;
  return { file: file.startsWith('file:') ? fileURLToPath(file) : resolve(directory, file), name };
}

/** An address as one word: a specifier that means the same from everywhere. */
export const addressText = ({ file, name }: ModuleAddress): string =>
  name === 'default' ? file : `${file}#${name}`;

const LITERAL = `(["'])(\\.{1,2}/[^"'\\n]+)\\1`;
const IMPORTS = new RegExp(`\\b(?:from|import|require)\\s*\\(?\\s*${LITERAL}`, 'gu');

/** The file that a relative import means: as it is spelt, or the TypeScript behind a `.js`, or with an ending. */
function importedFile(specifier: string, from: string): string | undefined {
  const plain = resolve(dirname(from), specifier);
  const stem = plain.replace(/\.([cm]?)js$/u, '.$1ts');
  const candidates = [plain, stem, ...MODULE_ENDINGS.map((ending) => plain + ending)];
  return candidates.find((path) => existsSync(path) && statSync(path).isFile());
}

/** @throws ConfigError for a file that cannot be read, or is no module by its ending */
function readModule(file: string): string {
  if (!(MODULE_ENDINGS as readonly string[]).includes(extname(file))) {
    throw new ConfigError(`${file}: not a module by its ending; modules end in ${MODULE_ENDINGS.join(', ')}`);
  }
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new ConfigError(`${file}: cannot be read as a module (${reasonOf(cause)})`, { cause });
  }
}

/**
 * Reads a module and its relative imports, recursively: text by file, the module first. @throws ConfigError
 * for a module that cannot be read
 */
export function moduleTexts(file: string): Map<string, string> {
  const texts = new Map<string, string>();
  const visit = (each: string, text: string): void => {
    texts.set(each, text);
    for (const [, , specifier] of text.matchAll(IMPORTS)) {
      const imported = importedFile(specifier!, each);
      if (imported !== undefined && !texts.has(imported)) visit(imported, readFileSync(imported, 'utf8'));
    }
  };
  visit(file, readModule(file));
  return texts;
}

/**
 * SHA-256 (hexadecimal) of a module and its relative imports, independent of their location. Not covered:
 * packages, computed paths, files that the code reads, the environment. Imports in comments count.
 * @throws ConfigError for a module that cannot be read
 */
export function moduleHash(file: string): string {
  const hash = createHash('sha256');
  for (const text of moduleTexts(file).values()) hash.update(createHash('sha256').update(text).digest());
  return hash.digest('hex');
}
