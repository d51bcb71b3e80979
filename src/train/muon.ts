/**
 * Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"): the momentum of a matrix is replaced by the nearest
 * semi-orthogonal one, so that all directions of an update are equally long. The update of a matrix of full rank has a root mean square of 0.2
 * learning rates, about that of AdamW (Liu et al. 2025, arXiv 2502.16982, equation 4). As torch.optim.Muon with adjust_lr_fn:
 * match_rms_adamw, but in the parameters' dtype, where that rounds to bfloat16.
 */
import type { Engine, Tensor } from '../engine/engine.ts';
import type { Choice } from '../ground/choice.ts';
import type { Parameter } from '../policy/layout.ts';
import type { Matrix } from './gradient-exchange.ts';

/** Optimisers of a recipe. */
export const OPTIMIZERS = {
  adamw: { label: 'AdamW', summary: 'all parameters', paper: 'Loshchilov & Hutter 2019, arXiv 1711.05101' },
  muon: {
    label: 'Muon',
    summary: 'matrices of the layers, the rest by AdamW; allows larger rates, and a step takes longer',
    paper: 'Jordan et al. 2024; size of updates: Liu et al. 2025, arXiv 2502.16982',
  },
} as const satisfies Readonly<Record<string, Choice>>;

/** Decay of Nesterov's momentum. */
export const MOMENTUM = 0.95;
/** Coefficients of x, x³ and x⁵: the slope at 0 is as steep as can be, and singular values end between 0.68 and 1.13. */
const [FIRST, THIRD, FIFTH] = [3.4445, -4.775, 2.0315] as const;
const ITERATIONS = 5;
/** Smallest norm that is divided by. */
const EPSILON = 1e-7;

/** Factor of the learning rate for a matrix, so that its update is about as large as AdamW's. */
export const rateOf = ({ rows, columns }: Pick<Matrix, 'rows' | 'columns'>): number =>
  0.2 * Math.sqrt(Math.max(rows, columns));

/**
 * Lists the matrices of a parameter, each projection on its own. Undefined for those that AdamW updates: vectors, embedding, head, and the kernel
 * of the patch embedding.
 */
export function matricesOf({ name, parts }: Pick<Parameter, 'name' | 'parts'>): Matrix[] | undefined {
  if (name === 'embed' || name === 'head' || parts.some(({ shape }) => shape.length !== 2)) return undefined;
  return parts.flatMap(({ name: of, offset, shape }) => {
    const [rows, columns] = shape as [number, number];
    if (!/\.attn\.qkv\.(weight|lora_B\b)/.test(of)) return [{ offset, rows, columns }];
    const third = rows / 3; // the vision tower's query, key and value
    return [0, 1, 2].map((i) => ({ offset: offset + i * third * columns, rows: third, columns }));
  });
}

/** Nearest semi-orthogonal matrices U·Vᵀ of X = U·S·Vᵀ, but for singular values near 1 (Newton–Schulz): [K, R, C] → [K, R, C], of its dtype. */
export function orthogonalised(engine: Engine, matrices: Tensor): Tensor {
  const [count, rows, columns] = matrices.shape as [number, number, number];
  const turned = (x: Tensor): Tensor => engine.permute(x, [0, 2, 1]);
  const nearer = (x: Tensor): Tensor => {
    const gram = engine.matmul(x, turned(x)); // [K, m, m]
    const both = engine.add(engine.mul(gram, THIRD), engine.mul(engine.matmul(gram, gram), FIFTH)); // [K, m, m]
    return engine.add(engine.mul(x, FIRST), engine.matmul(both, x)); // [K, m, n]
  };
  const flat = engine.cast(engine.reshape(matrices, [count, rows * columns]), 'float32');
  const norm = engine.clamp(engine.norm(flat), EPSILON, Infinity); // [K]
  const scaled = engine.div(flat, engine.reshape(norm, [count, 1])); // [K, R·C]
  let x = engine.reshape(engine.cast(scaled, matrices.dtype), [count, rows, columns]);
  if (rows > columns) x = turned(x); // [K, m, n], m ≤ n
  for (let i = 0; i < ITERATIONS; i++) x = engine.scope(() => nearer(x));
  return rows > columns ? turned(x) : x;
}
