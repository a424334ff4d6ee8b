// esbuild gives a table's text.
declare module "*.tsv" {
  const text: string;
  export default text;
}
