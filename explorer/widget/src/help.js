// What instructions do, in a few words of our own, after NVIDIA's PTX ISA and the instruction set table of its
// "CUDA Binary Utilities" manual.

const PTX = {
  "ld.global": "load from global memory", "st.global": "store to global memory", "ld.shared": "load from shared memory", "st.shared": "store to shared memory",
  "ld.param": "load a kernel argument", "cp.async": "copy from global to shared memory without waiting", ld: "load", st: "store", mov: "copy a register or constant",
  cvt: "convert between types", cvta: "convert between generic and specific addresses", mad: "multiply and add", fma: "fused multiply and add, rounded once", mul: "multiply",
  add: "add", sub: "subtract", div: "divide", rem: "remainder", neg: "negate", abs: "absolute value", max: "larger of two", min: "smaller of two", setp: "compare, result in a predicate",
  selp: "select by a predicate", and: "bitwise and", or: "bitwise or", xor: "bitwise exclusive or", not: "bitwise complement", shl: "shift left", shr: "shift right", shf: "shift two registers as one",
  bfe: "extract a bit field", prmt: "pick bytes of two registers", bra: "branch", ret: "return", bar: "wait for all threads of the block", "bar.sync": "wait for all threads of the block",
  shfl: "exchange registers between the threads of a warp", vote: "combine a predicate over a warp", sin: "sine, approximate", cos: "cosine, approximate", ex2: "2 to a power, approximate",
  lg2: "logarithm to base 2, approximate", rcp: "reciprocal", rsqrt: "reciprocal square root", sqrt: "square root", tanh: "hyperbolic tangent, approximate", atom: "atomic update, old value returned",
  red: "atomic update", mma: "matrix multiply and accumulate of a warp", wgmma: "matrix multiply and accumulate of a warp group", ldmatrix: "load matrix fragments from shared memory",
  copysign: "take the sign of another", testp: "test for infinity, NaN and the like", popc: "count bits", clz: "count leading zeros", membar: "order memory accesses", fence: "order memory accesses",
}; // prettier-ignore

const SASS = {
  LDG: "load from global memory", STG: "store to global memory", LDS: "load from shared memory", STS: "store to shared memory", LDC: "load from constant memory", ULDC: "load from constant memory to a uniform register",
  LDL: "load from local memory (stack or spills)", STL: "store to local memory (stack or spills)", LDGSTS: "copy from global to shared memory", LDSM: "load matrix fragments from shared memory",
  FADD: "add, float32", FMUL: "multiply, float32", FFMA: "fused multiply and add, float32", FSETP: "compare, float32", FSEL: "select, float32", FMNMX: "smaller or larger, float32", FCHK: "check the range of a division", FSET: "compare and set, float32",
  DADD: "add, float64", DMUL: "multiply, float64", DFMA: "fused multiply and add, float64", DSETP: "compare, float64", HADD2: "add two float16", HMUL2: "multiply two float16", HFMA2: "fused multiply and add of two float16",
  HMMA: "matrix multiply and accumulate, half precision", IMMA: "matrix multiply and accumulate, integers", HGMMA: "matrix multiply and accumulate of a warp group", MUFU: "special function: sine, cosine, exponential, reciprocal …",
  RRO: "reduce the range for a special function", IADD3: "add three integers", IMAD: "multiply and add integers", ISETP: "compare integers", LEA: "address: shift and add", LOP3: "any bitwise function of three inputs", ULOP3: "bitwise function of uniform registers",
  SHF: "shift two registers as one", SEL: "select by a predicate", PRMT: "pick bytes", MOV: "copy a register", UMOV: "copy a uniform register", CS2R: "copy a special register pair", S2R: "read a special register, such as the thread index", S2UR: "read a special register to a uniform one",
  I2F: "integer to float", F2I: "float to integer", F2F: "float to float", I2FP: "integer to float", F2FP: "convert and pack two floats", POPC: "count bits", FLO: "find the leading one", BREV: "reverse bits", VOTE: "combine a predicate over a warp", SHFL: "exchange registers in a warp",
  BAR: "wait for all threads of the block", BRA: "branch", EXIT: "end of the thread", CALL: "call", RET: "return", BSSY: "begin a region that threads leave together", BSYNC: "wait for the threads of the region", WARPSYNC: "wait for threads of the warp", NOP: "nothing", MEMBAR: "order memory accesses",
  ATOM: "atomic update, old value returned", ATOMG: "atomic update in global memory", RED: "atomic update", PLOP3: "combine predicates", DEPBAR: "wait for earlier loads", R2UR: "copy to a uniform register", UIADD3: "add uniform integers", UIMAD: "multiply and add uniform integers", USHF: "shift uniform registers",
}; // prettier-ignore

// [mnemonic, what it does], or null.
export function instruction(language, word) {
  const parts = word.split(".");
  const table = language === "ptx" ? PTX : language === "sass" ? SASS : null;
  if (!table || !parts[0]) return null;
  for (let count = Math.min(2, parts.length); count; count--) {
    const name = parts.slice(0, count).join(".");
    if (Object.hasOwn(table, name)) return [word, table[name]];
  }
  return null;
}
