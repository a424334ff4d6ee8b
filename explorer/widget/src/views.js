// The views beside the rail, in the order of their tabs: each is built when first shown.

export const VIEWS = [{ name: "code", title: "Code", about: "texts side by side", has: () => true }];
