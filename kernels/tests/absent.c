/* A library that is there when a plug-in is linked, and not where the loader looks. */
int fa1_absent(void);
int fa1_absent(void) { return 0; }
