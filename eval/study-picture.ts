/** Picture of a study: for every setting and arm the primary outcome and the first reward, with their intervals. */
import { createRequire } from 'node:module';
import type { TopLevelSpec } from 'vega-lite';
import { viewOf } from '../src/plot/vega-raster.ts';
import type { SettingResult, StudyResults } from './study-results.ts';

const FONT = 'DejaVu Sans';
const COLORS = { base: '#888888', better: '#1b7837', worse: '#b2182b', same: '#1f4e79', start: '#bbbbbb' };
/** Width of a column, height of an arm and pixels of the picture per unit. */
const [WIDTH, ROW, ZOOM] = [250, 20, 2];

type Look = keyof typeof COLORS;

interface Row {
  readonly arm: string;
  readonly column: string;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  readonly look: Look;
}

function rowsOf(setting: SettingResult, keys: readonly string[], base: string): Row[] {
  return setting.arms.flatMap(({ arm, title, values, toBase }) =>
    keys.flatMap((key): Row[] => {
      const value = values[key];
      if (value === undefined) return [];
      const difference = toBase?.[key];
      const look: Look =
        arm === base
          ? 'base'
          : toBase === null
            ? 'start'
            : difference?.significant !== true
              ? 'same'
              : difference.mean > 0
                ? 'better'
                : 'worse';
      const column = setting.keys.find((each) => each.key === key)!.label;
      return [{ arm: title, column, mean: value.mean, low: value.ci95[0], high: value.ci95[1], look }];
    }),
  );
}

/** Columns that are drawn: the primary outcome, then the first reward. */
function keysOf({ keys }: SettingResult, primary: string | null): string[] {
  const first = keys[0]!.key;
  return primary === null || primary === first ? [first] : [primary, first];
}

function specOf({ settings, base, primary, title, baseTitle }: StudyResults): TopLevelSpec {
  const color = {
    field: 'look',
    type: 'nominal',
    scale: { domain: Object.keys(COLORS), range: Object.values(COLORS) },
    legend: null,
  } as const;
  const panels = settings.map((setting) => {
    const names = setting.arms.map((arm) => arm.title);
    const keys = keysOf(setting, primary);
    const rows = rowsOf(setting, keys, base);
    const y = { field: 'arm', type: 'nominal', sort: names, title: null } as const;
    return {
      title: { text: setting.title, anchor: 'start', fontSize: 12 },
      hconcat: keys.map((key, k) => {
        const label = setting.keys.find((each) => each.key === key)!.label;
        const x = {
          type: 'quantitative',
          title: label,
          scale: { zero: false },
          axis: { tickCount: 5 },
        } as const;
        return {
          width: WIDTH,
          height: ROW * names.length,
          data: { values: rows.filter((row) => row.column === label) },
          encoding: { y: k === 0 ? y : { ...y, axis: null } },
          layer: [
            {
              mark: { type: 'rule', strokeWidth: 2 },
              encoding: { x: { field: 'low', ...x }, x2: { field: 'high' }, color },
            },
            {
              mark: { type: 'circle', size: 60, opacity: 1 },
              encoding: { x: { field: 'mean', ...x }, color },
            },
          ],
        };
      }),
    };
  });
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    background: 'white',
    padding: 12,
    title: {
      text: title,
      subtitle: `green and red: the 95 % interval of the difference from ${baseTitle} (grey) excludes 0`,
      anchor: 'start',
      subtitleFontSize: 10,
      offset: 12,
    },
    vconcat: panels,
    config: {
      font: FONT,
      aria: false,
      view: { stroke: null },
      axis: { gridColor: '#eeeeee', domainColor: '#bbbbbb', tickColor: '#bbbbbb', labelLimit: 260 },
    },
  } as unknown as TopLevelSpec;
}

/** Draws the results as a PNG; null where nothing is finished. */
export async function studyPicture(results: StudyResults): Promise<Buffer | null> {
  if (results.settings.length === 0) return null;
  const view = viewOf(specOf(results));
  try {
    const svg = await view.toSVG();
    const require = createRequire(import.meta.url);
    const { Resvg } = await import('@resvg/resvg-js');
    const fontFiles = ['DejaVuSans.ttf', 'DejaVuSans-Bold.ttf'].map((file) =>
      require.resolve(`dejavu-fonts-ttf/ttf/${file}`),
    );
    const font = { fontFiles, loadSystemFonts: false, defaultFontFamily: FONT };
    return new Resvg(svg, { font, fitTo: { mode: 'zoom', value: ZOOM } }).render().asPng();
  } finally {
    view.finalize();
  }
}
