import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataError } from '../../src/ground/errors.ts';
import { escapeText, html, inlineSvg, jsonBlock, page, pngSource } from '../../src/html/html.ts';

describe('the html template', () => {
  test('escapes strings in text and in attributes, keeps markup of its own, joins lists', () => {
    const hostile = `</script><img src=x onerror="alert('1')">&amp;`;
    const inner = html`<b>${hostile}</b>`;
    expect(String(html`<p title="${hostile}">${[inner, ' ', 3, null]}</p>`)).toBe(
      '<p title="&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;">' +
        '<b>&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;</b> 3</p>',
    );
  });

  test('lets no string open a tag, end an attribute, or carry what HTML cannot hold', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const escaped = escapeText(text);
        expect(escaped).not.toMatch(/[<>"']/);
        expect(escaped).not.toMatch(/&(?!amp;|lt;|gt;|quot;|#39;)/);
        const printable = (character: string) => character >= ' ' || character === '\t' || character === '\n';
        expect([...escaped].every(printable)).toBe(true);
      }),
    );
    expect(escapeText('a\u0000b\u001b[31m\ud800c\r\nd\u{1f600}')).toBe(
      'a\ufffdb\ufffd[31m\ufffdc\nd\u{1f600}',
    );
  });
});

test('a JSON block cannot be ended from inside, and reads back the same', () => {
  const value = { text: '</script><!--<script>\u2028\u2029]]>', n: [1, null] };
  const block = String(jsonBlock('data', value));
  expect(block.match(/<\/?script/g)).toHaveLength(2);
  expect(JSON.parse(block.replace(/^<[^>]*>|<\/script>$/g, ''))).toEqual(value);
});

describe('an inline SVG', () => {
  const svg = (inner: string, attributes = '') =>
    `<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"${attributes}>${inner}</svg>`;

  test('keeps what draws, gets a description, and own ids', () => {
    const text = String(
      inlineSvg(
        svg(
          '<defs><clipPath id="c1"><rect width="9" height="9"/></clipPath></defs><g clip-path="url(#c1)"><path d="M0,0L9,9" style="fill:none"/><text x="1">a &gt; b</text></g>',
        ),
        'fig-3',
        'a "falling" line',
      ),
    );
    expect(text).toMatch(/^<svg role="img" aria-label="a &quot;falling&quot; line"/);
    expect(text).toContain('<clipPath id="fig-3-c1">');
    expect(text).toContain('clip-path="url(#fig-3-c1)"');
    expect(text).toContain('a &gt; b');
  });

  test.each([
    ['a script', svg('<script>alert(1)</script>')],
    ['a script in a name space', svg('<svg:script>alert(1)</svg:script>')],
    ['a style sheet', svg('<style>*{display:none}</style>')],
    ['foreign markup', svg('<foreignObject><p>x</p></foreignObject>')],
    ['an event handler', svg('<rect onclick="alert(1)"/>')],
    ['an event handler on the root', svg('', ' onload="alert(1)"')],
    ['an unquoted attribute', svg('<rect onclick=alert(1) />')],
    ['a link', svg('<a href="https://example.org"><text>x</text></a>')],
    ['a picture', svg('<image xlink:href="https://example.org/x.png"/>')],
    ['an animation', svg('<rect><set attributeName="onclick" to="alert(1)"/></rect>')],
    ['a reference outside', svg('<rect fill="url(https://example.org/#a)"/>')],
    ['a reference outside in a style', svg('<rect style="fill:url(https://example.org/#a)"/>')],
    ['an escaped style', svg('<rect style="fill:u\\72l(x)"/>')],
    ['a comment', svg('<!-- x -->')],
    ['two elements', `${svg('')}<img src="x" onerror="alert(1)"></svg>`],
    ['no SVG at all', '<p>hello</p>'],
    ['an unfinished tag', svg('<rect')],
  ])('is refused with %s', (_, text) => {
    expect(() => inlineSvg(text, 'f', 'd')).toThrow(DataError);
  });
});

test('a picture must be an inlined PNG', () => {
  expect(pngSource('data:image/png;base64,iVBORw0KGgo=')).toBe('data:image/png;base64,iVBORw0KGgo=');
  for (const uri of [
    'https://example.org/a.png',
    'data:image/svg+xml;base64,AAAA',
    'data:image/png;base64,A"onerror=',
  ]) {
    expect(() => pngSource(uri)).toThrow(DataError);
  }
});

describe('a page', () => {
  test('allows only the scripts that it was given, by digest, and no network', () => {
    const text = page({ title: 'a < b', style: '', body: html`<p>x</p>`, scripts: ['let a = 1;'] });
    // printf 'let a = 1;' | openssl dgst -sha256 -binary | base64
    expect(text).toContain("script-src 'sha256-xY6QKfH9PRsQnLz56nj6MBwiK5oHg+im1Jkpdp1x/Ck='");
    expect(text).toContain("default-src 'none'");
    expect(text).toContain('<title>a &lt; b</title>');
    expect(page({ title: '', style: '', body: html`` })).toContain("script-src 'none'");
  });

  test('refuses a script text that would end its own element', () => {
    expect(() => page({ title: '', style: '', body: html``, scripts: ['"</script>"'] })).toThrow(DataError);
  });
});
