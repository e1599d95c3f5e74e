//go:build failpoints

// The compiler takes functions without a body only beside an assembly file.
