/** Version of the product, sent as `User-Agent`; a test holds it against package.json. */
export const VERSION = '0.1.0';
