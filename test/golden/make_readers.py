"""Makes test/golden/readers: small files of every format, and what independent programs read from them.

    python test/golden/make_readers.py      (aeon 1.6.0, scipy 1.17.1, numpy 2.3.5, pandas 3.0.6, pyarrow 26.0.1, wfdb 4.3.1)

expected.json holds per file the records as read by the program named in `by`: per record its label, and per channel
the length, the sum, a sum weighted by position (so that order counts), the number of missing values, and the first
and last value. Where no program reads a format (TSB-AD names, TAB's stacked rows, emgdb's corrupt lines), pandas or
numpy read the plain parts and the rest is written down by hand beside it.
"""

import io
import json
import os
import struct
import zipfile

import aeon
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
import scipy.io
import wfdb
from aeon.datasets import load_from_arff_file, load_from_ts_file, load_from_tsv_file

here = os.path.dirname(os.path.abspath(__file__))
out = f'{here}/readers'
os.makedirs(out, exist_ok=True)
rng = np.random.default_rng(20240607)
expected = {}


def digest(channel):
    v = np.asarray(channel, dtype=np.float64).ravel()
    ok = ~np.isnan(v)
    w = np.arange(1, len(v) + 1)
    edge = lambda x: None if np.isnan(x) else float(x)
    return {
        'length': len(v),
        'sum': float(v[ok].sum()),
        'weighted': float((v[ok] * w[ok]).sum()),
        'missing': int((~ok).sum()),
        'first': edge(v[0]),
        'last': edge(v[-1]),
    }


def note(name, by, records, **more):
    """records: list of (label or None, list of channels)"""
    expected[name] = {
        'by': by,
        'records': [{'label': label, 'channels': [digest(c) for c in channels]} for label, channels in records],
        **more,
    }


def write(name, text, encoding='utf-8'):
    with open(f'{out}/{name}', 'w', encoding=encoding, newline='') as f:
        f.write(text)
    return f'{out}/{name}'


def keep_as_text(name):
    """Under .ts a compiler would take the file for TypeScript."""
    os.replace(f'{out}/{name}', f'{out}/{name}.txt')


def number(x):
    return 'NaN' if np.isnan(x) else repr(float(np.round(x, 7)))


AEON = f'aeon {aeon.__version__}'
NUMPY = f'numpy {np.__version__}'
SCIPY = f'scipy {scipy.__version__}'
PANDAS = f'pandas {pd.__version__}'
ARROW = f'pyarrow {pa.__version__}'
WFDB = f'wfdb {wfdb.__version__}'

# --- .ts -------------------------------------------------------------------------------------------------------
X = rng.normal(size=(6, 2, 17)) * np.array([1.0, 250.0])[None, :, None]
labels = ['walk up', 'sit', 'sit', 'walk up', 'lie', 'sit']
labels = [l.replace(' ', '_') for l in labels]
rows = [':'.join([','.join(map(number, c)) for c in x] + [l]) for x, l in zip(X, labels)]
head = '# two channels\n@problemName Two\n@timeStamps false\n@missing false\n@univariate false\n@dimensions 2\n@equalLength true\n@seriesLength 17\n@classLabel true walk_up sit lie\n@data\n'
p = write('two.ts', head + '\n'.join(rows) + '\n')
x, y = load_from_ts_file(p)
note('two.ts', AEON, [(l, list(c)) for c, l in zip(x, y)])
keep_as_text('two.ts')

lengths = [5, 9, 3, 7]
U = [np.round(rng.normal(size=n), 5) for n in lengths]
U[1][2] = np.nan
rows = [','.join('?' if np.isnan(v) else number(v) for v in u) + f':{i % 2 + 1}' for i, u in enumerate(U)]
p = write('unequal.ts', '@problemName Unequal\r\n@timestamps false\r\n@missing true\r\n@univariate true\r\n@equalLength false\r\n@classLabel true 1 2\r\n@data\r\n' + '\r\n'.join(rows))
x, y = load_from_ts_file(p, replace_missing_vals_with='NaN')
note('unequal.ts', AEON, [(l, list(np.asarray(c, dtype=float))) for c, l in zip(x, y)])
keep_as_text('unequal.ts')

# --- .arff -----------------------------------------------------------------------------------------------------
F = np.round(rng.normal(size=(5, 11)), 6)
rows = [','.join(map(number, f)) + f',{"ab"[i % 2]}' for i, f in enumerate(F)]
attrs = ''.join(f'@attribute att{i} numeric\n' for i in range(11))
body = f'% flat\n@relation flat\n{attrs}@attribute target {{a,b}}\n\n@data\n' + '\n'.join(rows) + '\n'
write('flat.arff', '\ufeff' + body)
data, meta = scipy.io.arff.loadarff(io.StringIO(body))
note('flat.arff', SCIPY, [(r['target'].decode(), [[r[f'att{i}'] for i in range(11)]]) for r in data])

R = np.round(rng.normal(size=(4, 3, 8)), 6)
rows = ["'" + '\\n'.join(','.join(map(number, c)) for c in r) + f"',{['in', 'out'][i % 2]}.0" for i, r in enumerate(R)]
rel = ''.join(f'    @attribute t{i} numeric\n' for i in range(8))
p = write('relational.arff', f'@relation rel\n@attribute relationalAtt relational\n{rel}@end relationalAtt\n@attribute classAttribute {{in.0,out.0}}\n@data\n' + '\n'.join(rows) + '\n')
x, y = load_from_arff_file(p)
note('relational.arff', AEON, [(l, list(c)) for c, l in zip(x, y)])

# --- UCR .tsv --------------------------------------------------------------------------------------------------
T = np.round(rng.normal(size=(4, 13)), 8)
T[1, 9:] = np.nan
p = write('ucr.tsv', '\n'.join(f'{[-1, 2, 2, 5][i]}\t' + '\t'.join(map(number, t)) for i, t in enumerate(T)) + '\n')
x, y = load_from_tsv_file(p)
note('ucr.tsv', AEON, [(str(int(float(l))), list(c)) for c, l in zip(x, y)])

# --- csv and anomaly files -------------------------------------------------------------------------------------
v = np.round(rng.normal(size=40), 6)
clock = pd.date_range('2014-04-01 00:00:00', periods=40, freq='5min')
p = write('pump.csv', 'timestamp,flow\n' + '\n'.join(f'{t},{number(x)}' for t, x in zip(clock, v)) + '\n')
d = pd.read_csv(p, parse_dates=['timestamp'])
epoch = lambda s: (s - pd.Timestamp(0)).dt.total_seconds().tolist()
note('pump.csv', PANDAS, [(None, [d['flow']])], times=epoch(d['timestamp'])[:3])

mark = np.zeros(40, dtype=int)
mark[[7, 8, 9, 25]] = 1
p = write('001_UCR_Anomaly_tiny_20_25_25.out', '\n'.join(f'{number(x)},{m}.0' for x, m in zip(v, mark)) + '\n')
d = pd.read_csv(p, header=None)
note(os.path.basename(p), PANDAS, [(None, [d[0]])], anomalies=np.flatnonzero(d[1] == 1).tolist(), train=20)

p = write('005_Tiny_Set_id_3_WebService_tr_7_1st_7.csv', 'Data,Label\n' + '\n'.join(f'{number(x)},{m}' for x, m in zip(v, mark)) + '\n')
d = pd.read_csv(p)
note(os.path.basename(p), PANDAS, [(None, [d['Data']])], anomalies=np.flatnonzero(d['Label'] == 1).tolist(), train=7)

w = np.round(rng.normal(size=(40, 3)), 6)
w[4, 1] = np.nan
p = write('wide_tsb_ad.csv', 'cpu,mem,net,Label\n' + '\n'.join(','.join('' if np.isnan(x) else number(x) for x in r) + f',{m}' for r, m in zip(w, mark)) + '\n')
d = pd.read_csv(p)
note('wide_tsb_ad.csv', PANDAS, [(None, [d[c] for c in ['cpu', 'mem', 'net']])], anomalies=np.flatnonzero(d['Label'] == 1).tolist())

long = pd.DataFrame({'date': list(clock) * 3, 'data': np.concatenate([w[:, 0], w[:, 2], mark]), 'cols': ['cpu'] * 40 + ['net'] * 40 + ['label'] * 40})
p = f'{out}/tab.csv'
long.to_csv(p, index=False)
d = pd.read_csv(p)
note('tab.csv', PANDAS, [(None, [d[d['cols'] == c]['data'] for c in ['cpu', 'net']])], anomalies=np.flatnonzero(d[d['cols'] == 'label']['data'] == 1).tolist(), times=epoch(pd.to_datetime(d['date']))[:3])

p = write('nab_tiny.csv', 'timestamp,value\n' + '\n'.join(f'{t},{number(x)}' for t, x in zip(clock, v)) + '\n')
windows = {'other/nab_else.csv': [], 'realTiny/nab_tiny.csv': [['2014-04-01 00:35:00.000000', '2014-04-01 00:45:00.000000'], ['2014-04-01 02:03:00.000000', '2014-04-01 02:07:00.000000']]}
write('nab_windows.json', json.dumps(windows, indent=1))
d = pd.read_csv(p, parse_dates=['timestamp'])
inside = np.zeros(40, dtype=bool)
for a, b in windows['realTiny/nab_tiny.csv']:
    inside |= d['timestamp'].between(pd.Timestamp(a), pd.Timestamp(b)).to_numpy()
note('nab_tiny.csv', PANDAS, [(None, [d['value']])], anomalies=np.flatnonzero(inside).tolist(), times=epoch(d['timestamp'])[:3])

# --- NumPy -----------------------------------------------------------------------------------------------------
base = rng.normal(size=(3, 2, 7)) * 50
for code in ['f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8', 'b1']:
    for order in '<>':
        a = np.abs(base) if code[0] == 'u' else base
        if code in ('i8', 'u8'):
            a = a * 1e15
        if code == 'b1':
            a = a > 0
        elif order == '>' and code[1] == '1':
            continue
        a = a.astype(f'{order}{code}')
        fortran = order == '>'
        name = f'{"be" if fortran else "le"}_{code}.npy'
        version = {'<': (1, 0), '>': (2, 0) if code[0] == 'f' else (3, 0)}[order]
        with open(f'{out}/{name}', 'wb') as f:
            np.lib.format.write_array(f, np.asfortranarray(a) if fortran else a, version=version)
        note(name, NUMPY, [(None, list(c.astype(np.float64))) for c in np.load(f'{out}/{name}')])

p = f'{out}/stored.npz'
np.savez(p, X=base[:, 0], y=np.array([2, 0, 1]))
z = np.load(p)
note('stored.npz', NUMPY, [(str(int(l)), [c]) for c, l in zip(z['X'], z['y'])])
p = f'{out}/deflated.npz'
np.savez_compressed(p, X=base, y=np.array([2.5, 0, 1]))
z = np.load(p)
note('deflated.npz', NUMPY, [(f'{l:g}', list(c)) for c, l in zip(z['X'], z['y'])])
p = f'{out}/zip64.npz'
with zipfile.ZipFile(p, 'w', zipfile.ZIP_DEFLATED) as archive:
    with archive.open('series.npy', 'w', force_zip64=True) as f:
        np.lib.format.write_array(f, base[0].T.copy())
note('zip64.npz', NUMPY, [(None, list(np.load(p)['series'].T))])
np.save(f'{out}/unicode.npy', np.array(['a', 'bc']))
np.save(f'{out}/object.npy', np.array([{'a': 1}, 2], dtype=object), allow_pickle=True)

# --- Parquet ---------------------------------------------------------------------------------------------------
g = rng.normal(size=60)
g[5] = np.nan
table = pa.table({
    'timestamp': pa.array(pd.date_range('2020-01-01', periods=60, freq='min'), type=pa.timestamp('us')),
    'flow': pa.array([None if np.isnan(x) else x for x in g]),
    'count': pa.array((g * 0 + np.arange(60) * 7 - 3).astype('float32')),
    'level': pa.array(np.arange(60) ** 3 - 500, type=pa.int64()),
    'site': pa.array(['north', 'south'] * 30),
    'is_anomaly': pa.array((np.arange(60) % 20 == 3)),
})
for codec in ['none', 'snappy', 'gzip', 'zstd', 'brotli', 'lz4']:
    for version, plain in [('1.0', False), ('2.0', True)]:
        name = f'points_{codec}_{"v2" if plain else "v1"}.parquet'
        encoding = {'use_dictionary': False, 'column_encoding': {'flow': 'BYTE_STREAM_SPLIT', 'level': 'DELTA_BINARY_PACKED', 'timestamp': 'DELTA_BINARY_PACKED', 'site': 'PLAIN', 'is_anomaly': 'RLE', 'count': 'PLAIN'}} if plain else {}
        pq.write_table(table, f'{out}/{name}', compression=codec, data_page_version=version, row_group_size=35, store_schema=False, **encoding)
        d = pq.read_table(f'{out}/{name}')
        column = lambda c: np.array([np.nan if x is None else float(x) for x in d[c].to_pylist()])
        note(name, ARROW, [(None, [column(c) for c in ['flow', 'count', 'level']])], anomalies=np.flatnonzero(column('is_anomaly') == 1).tolist(), times=[1577836800, 1577836860, 1577836920])
lists = [np.round(rng.normal(size=n), 4).tolist() for n in [4, 6, 5, 1, 9]]
lists[2][1] = None
for version in ['1.0', '2.0']:
    name = f'lists_v{version[0]}.parquet'
    pq.write_table(pa.table({'x': pa.array(lists), 'z': pa.array([[i, -i] for i in range(5)]), 'label': pa.array(['a', 'b', 'a', 'c', 'b'])}), f'{out}/{name}', compression='snappy', data_page_version=version, row_group_size=2)
    d = pq.read_table(f'{out}/{name}')
    channel = lambda xs: [np.nan if x is None else x for x in xs]
    note(name, ARROW, [(r['label'], [channel(r['x']), channel(r['z'])]) for r in d.to_pylist()])

# Axes of an accelerometer, of which y looks like a label; the same without its neighbours.
axes = {'x': [0.5, 0.25, -1.0, 2.0], 'y': [0.0, 1.0, 1.0, 0.0], 'z': [9.5, 9.75, 9.0, 8.5]}
pq.write_table(pa.table(axes), f'{out}/axes.parquet', store_schema=False)
pq.write_table(pa.table({'level': axes['x'], 'y': axes['y']}), f'{out}/level_y.parquet', store_schema=False)

# --- MATLAB 4 --------------------------------------------------------------------------------------------------
for dtype in ['float64', 'float32', 'int32', 'int16', 'uint16', 'uint8']:
    m = (np.abs(rng.normal(size=(2, 9))) * 60).astype(dtype)
    p = f'{out}/{dtype}.mat'
    scipy.io.savemat(p, {'val': m}, format='4')
    note(f'{dtype}.mat', SCIPY, [(None, list(scipy.io.loadmat(p)['val'].astype(float)))])
big = rng.integers(-3000, 3000, size=(1, 12)).astype('>i2')
with open(f'{out}/big.mat', 'wb') as f:
    f.write(struct.pack('>5i', 1030, 1, 12, 0, 4) + b'val\0' + big.tobytes())
    f.write(struct.pack('>5i', 1051, 1, 5, 0, 5) + b'note\0' + b'hello')
    f.write(struct.pack('>5i', 1000, 3, 1, 0, 2) + b'b\0' + np.array([1.5, -2, 9], dtype='>f8').tobytes())
d = scipy.io.loadmat(f'{out}/big.mat')
note('big.mat', SCIPY, [(None, [d['val'][0]]), (None, [d['b'][:, 0]])], stated=str(d['note'][0]))

# --- WFDB ------------------------------------------------------------------------------------------------------
os.chdir(out)
for fmt, top in [('16', 30000), ('24', 8000000), ('32', 2000000000), ('80', 127), ('212', 2047), ('61', 30000), ('160', 30000), ('310', 511), ('311', 511)]:
    n = 31
    s = rng.integers(-top, top, size=(n, 3))
    name = f'rec{fmt}'
    flat = s.ravel()
    if fmt in ('310', '311'):
        pad = np.concatenate([flat, np.zeros(-len(flat) % 3, dtype=int)]).reshape(-1, 3) & 1023
        if fmt == '311':
            data = b''.join(struct.pack('<I', int(a | b << 10 | c << 20)) for a, b, c in pad)
        else:
            data = b''.join(struct.pack('<HH', int(a << 1 | (c & 31) << 11), int(b << 1 | (c >> 5) << 11)) for a, b, c in pad)
    elif fmt in ('61', '160'):
        data = (flat + (32768 if fmt == '160' else 0)).astype('>i2' if fmt == '61' else '<u2').tobytes()
    else:
        wfdb.wrsamp(name, fs=360, units=['mV', 'uV', 'mV'], sig_name=['I', 'II', 'V one'], d_signal=s, fmt=[fmt] * 3, adc_gain=[200.0, 1.5, 1000.0], baseline=[0, 12, -7])
        data = None
    if data is not None:
        with open(f'{name}.dat', 'wb') as f:
            f.write(data)
        sums = [int(x) for x in (s.sum(axis=0) + 32768) % 65536 - 32768]
        lines = [f'{name}.dat {fmt} {g} 12 0 {s[0, i]} {sums[i]} 0 {d}' for i, (g, d) in enumerate([('200(0)/mV', 'I'), ('1.5(12)/uV', 'II'), ('1000(-7)/mV', 'V one')])]
        write(f'{name}.hea', f'{name} 3 360 {n}\n' + '\n'.join(lines) + '\n# made here\n')
    r = wfdb.rdrecord(name)
    note(f'{name}.hea', WFDB, [(None, list(r.p_signal.T))], names=r.sig_name, rate=r.fs)
os.chdir(here)

# --- emgdb text and UCI HAR ------------------------------------------------------------------------------------
e = np.round(rng.normal(size=30) * 0.1, 4)
lines = [f'{(i + 1) * 0.00025:.6g} {x:.4f}' for i, x in enumerate(e)]
raw = '\n'.join(lines).encode()
bad = raw.replace(lines[11].split()[1].encode(), b'-0.0383+\xff=0.0350').replace(b'\n' + lines[20].encode(), b'\n\xfe\xfe' + lines[20].encode()[5:])
with open(f'{out}/emg_tiny.txt', 'wb') as f:
    f.write(bad)
kept = np.loadtxt(io.BytesIO(raw))
kept[11, 1] = np.nan
kept = np.delete(kept, 20, axis=0)
note('emg_tiny.txt', NUMPY, [(None, [kept[:, 1]])], times=kept[:3, 0].tolist(), faults=[[12, len(lines[11].split()[0]) + 2], [21, 1]])

for axis in 'xz':
    h = rng.normal(size=(4, 128))
    np.savetxt(f'{out}/har_{axis}.txt', h, fmt=' %.7e', delimiter='')
np.savetxt(f'{out}/har_y.txt', np.array([5, 1, 6, 5]), fmt='%d')
np.savetxt(f'{out}/har_subject.txt', np.array([1, 1, 3, 27]), fmt='%d')
hx, hz, hy = (np.loadtxt(f'{out}/har_{n}.txt') for n in ['x', 'z', 'y'])
note('har_x.txt', NUMPY, [(str(int(l)), [a, b]) for a, b, l in zip(hx, hz, hy)])

with open(f'{out}/expected.json', 'w') as f:
    json.dump(expected, f, indent=1)
print(len(expected), 'files', sum(os.path.getsize(f'{out}/{n}') for n in os.listdir(out)), 'bytes')
