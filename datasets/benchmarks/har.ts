/** HAR: six activities, from three axes of acceleration at the waist. */
import type { RawRecord } from '../readers/record.ts';
import { readUciHar } from '../readers/uci-har.ts';
import type { Split } from '../split.ts';
import type { Benchmark, Loaded } from './benchmark.ts';
import { classesOf, filesBelow, folderOf, labelReader, need, pick, refuseWindow } from './source-files.ts';

const LABELS = {
  1: 'walking',
  2: 'walking_upstairs',
  3: 'walking_downstairs',
  4: 'sitting',
  5: 'standing',
  6: 'laying',
} as const;
const AXES = ['x', 'y', 'z'] as const;
const CLASSES = classesOf(LABELS);

const read = labelReader(LABELS);

interface Part {
  readonly split: Split;
  readonly signals: readonly (readonly [name: string, path: string])[];
  readonly labels: string;
  readonly subjects: string | undefined;
}

const SPLIT =
  'Published as 7352 / 2947 windows of 2.56 s which overlap by half, made by volunteer (21 / 9), so no volunteer is in both.';

export const har: Benchmark = {
  name: 'har',
  title: 'Human activity: six kinds, from a phone at the waist',
  kind: 'classification',
  source: {
    description:
      '30 volunteers aged 19 to 48 with a phone at the waist: total acceleration along three axes at 50 Hz, in g.',
    licence: 'CC BY 4.0 (UCI machine learning repository)',
    citation:
      'Anguita, Ghio, Oneto, Parra, Reyes-Ortiz: A public domain dataset for human activity recognition using smartphones, ESANN 2013',
    addresses: [
      {
        url: 'https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip',
        sha256: 'c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031',
        unpack: true,
      },
    ],
  },
  classes: CLASSES,
  rate: 50,
  shape: '128 points, 3 channels',
  figure: { preset: 'har', missing: 'break' },
  nanoFigure: 'nano-har',
  prompt: {
    version: 1,
    context:
      'It is 2.56 seconds of the acceleration of a phone at the waist of a volunteer aged 19 to 48, 50 samples per second, along three axes, gravity included, in units of g.',
    question: 'Decide what the volunteer is doing.',
    hints: {
      walking: 'regular steps of moderate size on the level',
      walking_upstairs: 'steps that are slower and less even, the body leaning forward',
      walking_downstairs: 'steps with hard, sharp impacts',
      sitting: 'hardly any movement, gravity spread over several axes',
      standing: 'hardly any movement, gravity almost wholly along the upright axis',
      laying: 'hardly any movement, gravity along another axis than the upright one',
    },
    advice: 'advise the person about health and safety in this activity',
    advised: {
      walking:
        'Advise the person to keep up this activity for half an hour on most days, which is good for heart and health, on even ground and in firm shoes for safety.',
      walking_upstairs:
        'Advise the person to use the handrail for safety and to rest on the landing when breath gets short; climbing stairs is a strong activity for health.',
      walking_downstairs:
        'Advise the person to hold the handrail and to put down the whole foot, since each step down loads the knees and a fall in this activity is a danger to health.',
      sitting:
        'Advise the person to stand up and to walk for some minutes every half hour, since long sitting is an activity that harms health.',
      standing:
        'Advise the person to shift the weight and to walk a little every half hour, since standing still for long strains back and veins.',
      laying:
        'Advise the person to rest as long as sleep needs, and make sure for safety that this activity is a rest and not a fall.',
    },
  },
  needs: 'download',
  layout:
    'total_acc_{x,y,z}_{train,test}.txt and y_{train,test}.txt; subject_{train,test}.txt names the volunteers',
  open({ directory, window }) {
    refuseWindow('har', window);
    const folder = folderOf(har, directory);
    const all = filesBelow(folder);
    const parts = (['train', 'test'] as const).map((split): Part => {
      const file = (name: string): string => need(all, [`${name}_${split}.txt`], folder, har);
      return {
        split,
        signals: AXES.map((axis) => [axis, file(`total_acc_${axis}`)]),
        labels: file('y'),
        subjects: pick(all, [`subject_${split}.txt`]),
      };
    });
    const named = parts.every(({ subjects }) => subjects !== undefined);
    const loadedOf = ({ split }: Part, record: RawRecord, index: number): Loaded => ({
      split,
      example: {
        id: `har/${split}/${index}`,
        task: 'har',
        channels: record.channels,
        names: AXES,
        times: null,
        gold: { kind: 'classification', class: read(record.label, record) },
        recording: named ? `volunteer ${record.group}` : null,
      },
    });
    return {
      files: parts.flatMap(({ signals, labels, subjects }) => [
        ...signals.map(([, path]) => path),
        labels,
        ...(subjects === undefined ? [] : [subjects]),
      ]),
      classes: () => CLASSES,
      parameters: {},
      plan: {
        by: 'given',
        statement: `Split of the benchmark. ${SPLIT}${named ? '' : ' The files that name the volunteers are not here, so this was not checked.'}`,
        recordingsApart: named ? true : null,
        validation: named
          ? 'recording'
          : {
              refused:
                'neighbouring windows overlap by half, and without subject_train.txt it is not known which belong together',
            },
      },
      *load() {
        for (const part of parts) {
          const { signals, labels } = part;
          let index = 0;
          const files = { signals, labels, ...(named ? { subjects: part.subjects } : {}) };
          for (const record of readUciHar(files)) yield loadedOf(part, record, index++);
        }
      },
    };
  },
};
