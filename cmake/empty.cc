// A library made of archives alone needs one source.
