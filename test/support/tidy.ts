import { afterAll } from 'vitest';
import { terminateLeftovers } from './address.ts';

afterAll(terminateLeftovers);
