/** The matrix library: which it is, the kernels it chose, and its speed beside what the processor promises. */
import {
  CORE_TYPE,
  flopsPerCycle,
  instructionsOf,
  narrower,
  type Probe,
  type Processor,
} from '../engine/torch/kernel.ts';
import type { Check } from './checks.ts';

/** Below this share of what the processor promises, something is wrong. */
const LEAST_SHARE = 0.5;

/** The matrix library among the files mapped by a process that loaded the engine. */
export function blasOf(maps: string): { name: string; slow: boolean } {
  const files = [
    ...new Set(maps.match(/\/\S*(?:openblas|mkl_rt|mkl_core|blis|libblas|Accelerate|vecLib)\S*/g) ?? []),
  ];
  const file = files.find((name) => /openblas|mkl|blis|Accelerate|vecLib/.test(name)) ?? files[0];
  if (file === undefined) return { name: 'inside libtorch', slow: false };
  const threading = /openblas[^/]*(openmp|pthread|serial)/.exec(file)?.[1];
  return {
    name: threading === undefined ? file : `${file} (${threading})`,
    slow: !/openblas|mkl|blis|Acc|vecLib/.test(file),
  };
}

/** What the library is called: its file, or of one inside libtorch what libtorch says of it. */
function nameOf({ maps, config }: Probe): string {
  const { name } = blasOf(maps);
  const mkl = /Math Kernel Library Version (\d[\d.]*)/.exec(config)?.[1];
  return name === 'inside libtorch' && mkl !== undefined ? `MKL ${mkl} inside libtorch` : name;
}

/**
 * `wished` is the user's OPENBLAS_CORETYPE, '' where it is not set. `install` is the command that installs a fast library.
 */
export function blasCheck(cpu: Processor, found: Probe, wished: string, install: string): Check {
  const { kernel, gflops, gigahertz } = found;
  const { slow } = blasOf(found.maps);
  const perCycle = flopsPerCycle(cpu);
  const promised = perCycle === null || gigahertz === 0 ? null : perCycle * gigahertz;
  const promise =
    promised === null
      ? ''
      : ` of at most ${promised.toFixed(0)} (${cpu.instructions}: ${perCycle} operations a cycle × ${gigahertz.toFixed(1)} GHz)`;
  const kernels = kernel === '' ? '' : `, kernels for ${kernel}`;
  const speed = `${nameOf(found)}${kernels}: ${gflops.toFixed(0)} GFLOP/s on one core${promise}`;
  const warning = (why: string, fix: string): Check => ({
    name: 'blas',
    status: 'warning',
    found: `${speed}${why}`,
    fix,
  });
  const unset = `unset ${CORE_TYPE}`;
  if (slow) return warning(': a slow library', install);
  if (wished !== '' && kernel !== '' && kernel.toLowerCase() !== wished.toLowerCase()) {
    return warning(`; ${CORE_TYPE}=${wished} names none of its kernels`, unset);
  }
  if (promised === null || gflops >= LEAST_SHARE * promised)
    return { name: 'blas', status: 'ok', found: speed };
  const used = instructionsOf(kernel);
  const narrow = used !== null && cpu.instructions !== null && narrower(used, cpu.instructions);
  if (narrow && wished !== '')
    return warning(`; ${CORE_TYPE}=${wished} is set, its kernels use ${used}`, unset);
  if (narrow)
    return warning(`; these kernels use ${used}, and it has no faster ones`, 'install a newer OpenBLAS');
  const again = 'run it again while nothing else computes';
  return used === null && cpu.arch === 'x64'
    ? warning(
        '',
        `${again}; if it stays so, OpenBLAS may be faster: ${install}, then LIBTORCH=/usr npx timeseer setup`,
      )
    : warning('', `${again}; some processors have one unit for ${cpu.instructions} and reach half`);
}
